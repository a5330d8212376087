FROM python:3.11-slim

COPY pyproject.toml README.md LICENSE /build/
COPY src /build/src
COPY migrations /build/migrations
COPY policies /build/policies
COPY queries /build/queries
RUN cd /build && pip install --no-cache-dir '.[serve,mcp]' && rm -rf /build

RUN useradd --create-home --shell /usr/sbin/nologin ebbtide
USER ebbtide
WORKDIR /home/ebbtide

ENTRYPOINT ["ebb"]
CMD ["daemon"]

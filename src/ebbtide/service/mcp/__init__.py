"""The store for assistants that speak MCP: one namespace and one role, as tools and resources.

Needs the MCP SDK, which comes with `ebbtide[mcp]`: nothing but `server` and `http` imports it.
"""

"""Runs the migrations on the connection that the store hands over; there is no offline mode."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, transactional_ddl=False, transaction_per_migration=False)
context.run_migrations()

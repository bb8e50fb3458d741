"""The server: HTTP and MCP interfaces with authentication, policies and limits over embedded graphs."""

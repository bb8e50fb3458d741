"""The MCP server: tools and resources of a graph for agents, over stdio and HTTP."""

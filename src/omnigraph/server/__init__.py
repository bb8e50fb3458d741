"""The HTTP door: who asks, what they may, how much they get; the graph behind it is the embedded one."""

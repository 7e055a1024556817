"""HTTP over sockets of our own, read by llhttp: one client, one server. Figures of the extender ask for both."""

"""An HTTP client and an HTTP server on sockets and llhttp; general libraries are too slow for the extender."""

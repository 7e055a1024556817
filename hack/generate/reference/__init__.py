"""Reference pages below docs/, each made from the code; `make docs` writes them, a test holds them to it."""

"""The composition root: the only package that knows everybody.

Rules
1. Stores are opened here and nowhere else; everybody else is handed ports.
2. Nothing is decided here: these files build, connect, start and stop.
3. Secrets are read here from files and handed on; they are never printed or logged.
4. A file imports what its own job needs and no more: a command that lists keys loads no server.
"""

"""Collectors: one module a native front end, behind the protocol of ``base``; ``registry`` chooses one."""

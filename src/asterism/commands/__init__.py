"""What each command of ``asterism`` does, one module per command; ``cli.py`` only reads arguments.

A command is a function from its options and a console to what it came to (``console.Done``). What
they share: ``exits`` (errors, exit codes, and the library's sentences in flags), ``console`` (what
is said while they run), ``options`` and ``flags`` (flags, and what they may be), ``input_table``
(which table, and what is guessed about it), ``outputs`` (where results go), ``choices`` and
``learnable`` (what is decided, and whether it can be learned from), ``panel`` (states and
transitions).
"""

"""What each command of ``asterism`` does, one module per command; ``cli.py`` only reads arguments.

A command is a function from its options to an exit code. What all of them share: ``exits`` (errors
and exit codes), ``console`` (what is said while they run), ``options``, ``values`` and
``config_file`` (flags, what they may be, and the file in their place), ``tables`` and ``emissions``
(what is guessed about a file, and said).
"""

/* Calls a Python callback from C and C++ frames of every kind. Built by tests/integration/test_native.py. */
typedef int (*callback)(int);

/* A program that runs Python, is not position-independent, and takes addresses of the C library's functions. */
#include <Python.h>

#include <signal.h>
#include <unistd.h>

int (*const kept[])(int, const struct sigaction *, struct sigaction *) = {sigaction};
int (*const executes[])(const char *, char *const *) = {execv};

int main(int argc, char **argv) {
    if (argc < 2) { /* calls of its own, whose slots are bound at the first one */
        sigaction(SIGTRAP, NULL, NULL);
        execv("/", argv);
    }
    return Py_BytesMain(argc, argv);
}

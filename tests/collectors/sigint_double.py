"""A native library that does to SIGINT what the vendor's collector does, compiled when a test asks for it.

Its first ``init`` installs a handler that passes the signal on, and starts a thread that raises it again two seconds
after it has seen one.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests import pace

_SOURCE = """
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static struct sigaction before;
static volatile sig_atomic_t seen;
static volatile int ended, running;
static pthread_t watcher;

static void handler(int number) {
    seen = number;
    if (before.sa_handler != SIG_IGN && before.sa_handler != SIG_DFL) before.sa_handler(number);
}

static void *watch(void *unused) {
    while (!seen && !ended) usleep(1000);
    if (seen) {
        usleep(2000000);
        sigaction(SIGINT, &before, NULL);
        raise(SIGINT);
    }
    return unused;
}

void init(void) {
    struct sigaction own = {.sa_handler = handler};
    if (running) return;
    running = 1;
    pthread_create(&watcher, NULL, watch, NULL);
    sigaction(SIGINT, &own, &before);
}

/* Waits until the thread has raised what it has to raise. */
void rest(void) {
    ended = 1;
    pthread_join(watcher, NULL);
}
"""


def build(directory: Path) -> Path:
    """Compile the library, or skip the test where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("a C compiler (cc) is needed to build a library with a handler of its own")
    source, library = directory / "sigint.c", directory / "libsigint.so"
    source.write_text(_SOURCE)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-pthread", "-o", library, source], check=True, timeout=pace.seconds(120)
    )
    return library

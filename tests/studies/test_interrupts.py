from __future__ import annotations

import os
import signal
import threading

import pytest

from hydra_dse.studies.interrupts import uninterrupted


def test_ctrl_c_waits_for_the_end_of_the_block():
    done = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("written")
        assert done == ["written"]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_error_in_the_block_is_not_hidden_and_the_handler_comes_back():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ValueError, match="broken"), uninterrupted():
        raise ValueError("broken")
    assert signal.getsignal(signal.SIGINT) == before


def test_a_block_in_another_thread_runs_as_it_is():
    ran = []

    def work():
        with uninterrupted():
            ran.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ran == [True]

"""What tests that run a tool as a child process share."""

import signal


def hear_ctrl_c() -> None:
    """In the child (`preexec_fn`): a shell that runs the tests in the background has SIGINT
    ignored, and children inherit that.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)

"""A Kerberos KDC of the distribution's packages (krb5-kdc, krb5-admin-server) as a process, with
its realm in a folder.
"""

from __future__ import annotations

import importlib.util
import pathlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from support.peers.peers import free_port, require

REALM = "KMIRROR.TEST"
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


class Kdc:
    """`keytab(principal)` makes the principal and gives the path of its key."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.config = folder / "krb5.conf"
        self.config.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_realm = false\n dns_lookup_kdc = false\n rdns = false\n"
            " dns_canonicalize_hostname = false\n udp_preference_limit = 1\n"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{self.port}\n }}\n"
        )
        (folder / "kdc.conf").write_text(
            f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{self.port}\n kdc_tcp_listen = 127.0.0.1:{self.port}\n"
            f"[realms]\n {REALM} = {{\n  database_name = {folder}/principal\n  key_stash_file = {folder}/stash\n  acl_file = {folder}/acl\n }}\n"
        )
        self.environment = {"KRB5_CONFIG": str(self.config), "KRB5_KDC_PROFILE": str(folder / "kdc.conf"), "PATH": PATH}

    def run(self, *command: str) -> None:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr

    def keytab(self, principal: str) -> str:
        path = self.folder / f"{principal.replace('/', '-')}.keytab"
        self.run("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {principal}")
        self.run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {path} {principal}")
        return str(path)


@contextmanager
def running_kdc(folder: pathlib.Path) -> Iterator[Kdc]:
    """Skips (in CI: fails) where the packages or the library gssapi are missing."""
    require(importlib.util.find_spec("gssapi"), "the library gssapi is not installed: pip install 'kmirror[gssapi]' (needs libkrb5-dev)")
    for program in ("krb5kdc", "kdb5_util", "kadmin.local"):
        require(shutil.which(program, path=PATH), f"{program} is missing: install krb5-kdc and krb5-admin-server")
    kdc = Kdc(folder)
    kdc.run("kdb5_util", "-r", REALM, "create", "-s", "-P", "master-secret")
    process = subprocess.Popen(["krb5kdc", "-n", "-r", REALM], env=kdc.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        assert process.poll() is None, "krb5kdc ended at once"
        yield kdc
    finally:
        process.terminate()
        process.wait(10)

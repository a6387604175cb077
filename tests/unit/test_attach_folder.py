"""What `spprof attach` gives a process of another user, whose names for it may change at any moment."""

import os
import sys

import pytest

if sys.platform != "linux":
    pytest.skip("spprof attaches on Linux alone", allow_module_level=True)

from spprof.errors import Unsupported
from spprof.launching import connecting, given


@pytest.fixture
def root(tmp_path):
    """Of a process."""
    for name in ("tmp", "var/tmp", "dev/shm"):
        (tmp_path / "root" / name).mkdir(parents=True)
    return tmp_path / "root"


def made(root, number=1):
    return given.make(str(root), number, os.geteuid())


def test_the_folder_itself_is_given_last(root, monkeypatch):
    """Before that nobody else can change what a name in it means."""
    folder = made(root)
    above = root / folder.place[1:]
    (above / "spprof" / "cli").mkdir(parents=True)
    (above / "script.py").touch()
    (above / "spprof" / "cli" / "run.py").touch()
    names, chown, fchown = [], os.chown, os.fchown

    def by_name(name, uid, gid, *, dir_fd, follow_symlinks):
        assert not follow_symlinks
        names.append(os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), name))
        chown(name, uid, gid, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    def by_fd(fd, uid, gid):
        names.append(os.readlink(f"/proc/self/fd/{fd}"))
        fchown(fd, uid, gid)

    monkeypatch.setattr(os, "chown", by_name)
    monkeypatch.setattr(os, "fchown", by_fd)
    folder.give(os.geteuid())
    assert names[-1] == str(above)
    assert sorted(names) == [f"{above}{name}" for name in ("", "/script.py", "/spprof", "/spprof/cli", "/spprof/cli/run.py")]


@pytest.mark.parametrize("link", ["tmp", "var", "dev/shm"])
def test_a_link_on_the_way_is_not_followed(link, root, tmp_path):
    """A folder of the process's own is taken then, or none."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "tmp").mkdir(parents=True)
    for one in ("tmp", "var/tmp", "dev/shm"):  # `link` is the only way left
        if not one.startswith(link):
            (root / one).rmdir()
    (root / link).rename(tmp_path / "was")
    (root / link).symlink_to(elsewhere)
    with pytest.raises(Unsupported):
        made(root)
    assert [os.listdir(folder) for folder in (elsewhere, elsewhere / "tmp")] == [["tmp"], []]


def attachment(root):
    """An attachment whose script may yet run."""
    one = connecting.Way(os.getpid(), -1)
    one._may_run = True
    one._folder = folder = made(root)
    one._script = os.open("script.py", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder.fd)
    os.write(one._script, b"1 + 1\n")
    os.mkdir(f"{folder.path}/spprof")
    return one, root / folder.place[1:]


def test_a_script_that_became_a_pipe_is_not_opened(root):
    one, folder = attachment(root)
    (folder / "script.py").rename(folder / "away")
    os.mkfifo(folder / "script.py")
    one.clear()  # would wait for a reader
    assert "1 + 1" not in (folder / "away").read_text() and not (folder / "spprof").exists()


def test_a_folder_that_was_swapped_is_left_alone(root, tmp_path):
    one, folder = attachment(root)
    others = tmp_path / "others"
    (others / "spprof").mkdir(parents=True)
    (others / "script.py").write_text("work")
    folder.rename(tmp_path / "away")
    folder.symlink_to(others)
    one.clear()
    assert (others / "script.py").read_text() == "work" and (others / "spprof").is_dir()


def names(root):
    return sorted(os.listdir(root / "tmp"))


def test_what_a_killed_attachment_left_is_removed_by_the_next(root):
    """Its lock goes with it. What lives is let alone, and what is not ours."""
    (root / "tmp" / "spprof-1-notes").mkdir()
    (root / "proc" / "1").mkdir(parents=True)
    killed, lives = made(root), made(root)
    assert names(root) == sorted(["spprof-1-notes", *(os.path.basename(one.place) for one in (killed, lives))])
    (root / killed.place[1:] / "socket").touch()
    killed.close()
    third = made(root)
    assert names(root) == sorted(["spprof-1-notes", *(os.path.basename(one.place) for one in (lives, third))])
    assert (root / "tmp" / "spprof-1-notes").is_dir()


def test_a_script_that_may_yet_run_stays_as_long_as_its_process_lives(root):
    killed = made(root, 7)
    script = root / killed.place[1:] / "script.py"
    script.touch()
    killed.close()
    made(root, 8)
    assert script.exists(), "it is not known which numbers there are"
    for number in ("7", "8"):
        (root / "proc" / number).mkdir(parents=True)
    made(root, 8)
    assert script.exists()
    (root / "proc" / "7").rmdir()
    made(root, 8)
    assert not script.parent.exists()


def test_a_folder_that_was_removed_before_it_was_locked_is_not_taken(root, monkeypatch):
    lock, once = given._is_locked, []

    def late(fd):
        if not once:
            once.append(os.rmdir(os.readlink(f"/proc/self/fd/{fd}")))
        return lock(fd)

    monkeypatch.setattr(given, "_is_locked", late)
    folder = made(root)
    assert once and names(root) == [os.path.basename(folder.place)]


def test_what_those_left_that_were_killed_goes_when_the_process_has_run_the_next(root):
    """A script for another process stays, and so does that of one that lives."""
    (root / "proc" / "1").mkdir(parents=True)
    (root / "proc" / "2").mkdir()
    killed, other, alive, own = made(root), made(root, 2), made(root), made(root)
    for one in (killed, other, alive):
        (root / one.place[1:] / "script.py").touch()
    for one in (killed, other):
        one.close()
    own.remove()
    own.remove_before(os.geteuid())
    assert sorted(os.listdir(root / "tmp")) == sorted(os.path.basename(one.place) for one in (other, alive))

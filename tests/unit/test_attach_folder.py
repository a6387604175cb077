"""What `spprof attach` gives a process of another user, whose names for it may change at any moment."""

import os
import sys

import pytest

if sys.platform != "linux":
    pytest.skip("spprof attaches on Linux alone", allow_module_level=True)

from spprof.launching import attach


@pytest.fixture
def root(tmp_path):
    """Of a process."""
    for name in ("tmp", "var/tmp", "dev/shm"):
        (tmp_path / "root" / name).mkdir(parents=True)
    return tmp_path / "root"


def test_the_folder_itself_is_given_last(root, monkeypatch):
    """Before that nobody else can change what a name in it means."""
    folder = attach._folder_in(str(root))
    above = root / folder.place[1:]
    (above / "spprof" / "cli").mkdir(parents=True)
    (above / "script.py").touch()
    (above / "spprof" / "cli" / "run.py").touch()
    given, chown, fchown = [], os.chown, os.fchown

    def by_name(name, uid, gid, *, dir_fd, follow_symlinks):
        assert not follow_symlinks
        given.append(os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), name))
        chown(name, uid, gid, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    def by_fd(fd, uid, gid):
        given.append(os.readlink(f"/proc/self/fd/{fd}"))
        fchown(fd, uid, gid)

    monkeypatch.setattr(os, "chown", by_name)
    monkeypatch.setattr(os, "fchown", by_fd)
    attach._give(folder.fd, os.geteuid())
    assert given[-1] == str(above)
    names = ("", "/script.py", "/spprof", "/spprof/cli", "/spprof/cli/run.py")
    assert sorted(given) == [f"{above}{name}" for name in names]


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
    with pytest.raises(attach.Unsupported):
        attach._folder_in(str(root))
    assert [os.listdir(folder) for folder in (elsewhere, elsewhere / "tmp")] == [["tmp"], []]


def given(root):
    """An attachment whose script may yet run."""
    one = attach.Attach.__new__(attach.Attach)
    one.pid, one._may_run = os.getpid(), True
    one._folder = folder = attach._folder_in(str(root))
    one._script = os.open("script.py", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder.fd)
    os.write(one._script, b"1 + 1\n")
    os.mkdir(f"{folder.path}/spprof")
    return one, root / folder.place[1:]


def test_a_script_that_became_a_pipe_is_not_opened(root):
    one, folder = given(root)
    (folder / "script.py").rename(folder / "away")
    os.mkfifo(folder / "script.py")
    one._clear()  # would wait for a reader
    assert (folder / "away").read_bytes() == b"" and not (folder / "spprof").exists()


def test_a_folder_that_was_swapped_is_left_alone(root, tmp_path):
    one, folder = given(root)
    others = tmp_path / "others"
    (others / "spprof").mkdir(parents=True)
    (others / "script.py").write_text("work")
    folder.rename(tmp_path / "away")
    folder.symlink_to(others)
    one._clear()
    assert (others / "script.py").read_text() == "work" and (others / "spprof").is_dir()

# shellcheck shell=bash
# Sourced by what runs programs under wine: wine_begin PREFIX sets $wine, makes PREFIX this process's alone, and starts a program
# there that waits until this process ends.
#
# A program that begins while wine's server ends fails ("recvmsg: Connection reset by peer"), and Debian's wine has it end with its
# last program (-p0), so between any two tests. While one waits, it does not end.
wine_begin() {
  wine=$(command -v wine64 || echo /usr/lib/wine/wine64)
  export WINEPREFIX=$1 WINEDEBUG=-all
  mkdir -p "$WINEPREFIX"
  exec 9>"$WINEPREFIX.lock"
  flock -w 1800 9 || { echo "wine: another run has kept $WINEPREFIX for half an hour" >&2; exit 1; }
  if [ ! -e "$WINEPREFIX/made" ]; then
    "$wine" wineboot -i </dev/null 2>&1 9>&- | cat
    "$wine" reg add 'HKCU\Software\Wine' /v Version /d win10 /f </dev/null 2>&1 9>&- | cat >/dev/null
    date >"$WINEPREFIX/made"
  fi
  rm -f "$WINEPREFIX.waits"
  mkfifo "$WINEPREFIX.waits"
  exec 8<>"$WINEPREFIX.waits" # what reads there waits until nobody has this descriptor
  "$wine" cmd /c 'set /p x=' <"$WINEPREFIX.waits" >/dev/null 2>&1 8>&- 9>&- &
  # The next one to take the lock must not meet the end of this server.
  trap "kill $! 2>/dev/null || true; timeout 30 '$(command -v wineserver || echo /usr/lib/wine/wineserver)' -w 2>/dev/null || true" EXIT
}

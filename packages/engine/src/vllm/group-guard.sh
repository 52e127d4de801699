#!/bin/sh
# group-guard.sh GRACE_SECONDS COMMAND...: runs COMMAND in this process group, whose leader this shell is, and ends the whole group
# when the other end of fd 3 closes, which the kernel does for a process that dies in any way.
grace=$1
shift
trap ':' TERM INT HUP
"$@" 3<&- &
command=$!
(
  trap ':' TERM INT HUP
  while :; do
    read -r _ <&3
    # 1 is the end of the pipe; a signal gives more than 128.
    [ $? -eq 1 ] && break
  done
  # From here on the end of COMMAND, which sends USR1, does not end the guard: its children may linger.
  trap '' USR1
  kill -TERM 0
  sleep "$grace"
  kill -KILL 0
) &
guard=$!
exec 3<&-
code=0
while kill -0 "$command" 2>/dev/null; do
  wait "$command"
  code=$?
done
kill -USR1 "$guard" 2>/dev/null
exit "$code"

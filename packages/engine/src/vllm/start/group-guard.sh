#!/bin/sh
# group-guard.sh GRACE_SECONDS COMMAND...: runs COMMAND in this process group, whose leader this shell is, and ends the whole group
# when the other end of fd 3 closes, which the kernel does for a process that dies in any way.
grace=$1
shift
trap ':' TERM INT HUP
"$@" 3<&- &
command=$!
(
  trap 'again=1' TERM INT HUP
  trap 'exit 0' USR1
  again=1
  # A signal to the group ends `read` like the end of the pipe does. It reads in this shell: a child of its own could outlive it.
  while [ "$again" -eq 1 ]; do
    again=0
    read -r _ <&3 && again=1
  done
  # From here on the end of COMMAND, which sends USR1, does not end the guard: its children may linger.
  trap '' USR1
  kill -TERM 0
  sleep "$grace"
  kill -KILL 0
) &
guard=$!
exec 3<&-
wait "$command"
code=$?
# A signal ends the waiting, not the command.
while [ "$code" -gt 128 ] && kill -0 "$command" 2>/dev/null; do
  wait "$command"
  code=$?
done
kill -USR1 "$guard" 2>/dev/null
exit "$code"

# Waits for the end of its input, then ends all processes that work in the folder $1 and removes the folder.
# Runs as the user that the processes run as.
trap '' HUP INT QUIT TERM
folder=$1
read -r _

inside() {
    find /proc/[0-9]*/cwd -maxdepth 0 \( -lname "$folder" -o -lname "$folder/*" \) 2>/dev/null | cut -d/ -f3
}

# A server that is asked to end gives its shared memory back.
pidfile=$folder/data/postmaster.pid
server=$(sed -n 1p "$pidfile" 2>/dev/null)
if [ -n "$server" ] && inside | grep -qx -e "$server"; then
    kill -s QUIT "$server" 2>/dev/null
else
    server=
fi

glances=0
while left=$(inside); [ -n "$left" ]; do
    if [ -z "$server" ] || [ "$glances" -ge 250 ]; then
        # shellcheck disable=SC2086
        kill -s KILL $left 2>/dev/null
    fi
    [ "$glances" -ge 1000 ] && exit 1
    glances=$((glances + 1))
    sleep 0.02
done

# A killed server has left this file, and in its seventh line the number of a segment.
segment=$(sed -n 7p "$pidfile" 2>/dev/null | tr -s ' ' | sed 's/^ //' | cut -d' ' -f2)
[ -n "$segment" ] && ipcrm -m "$segment" 2>/dev/null
rm -rf -- "$folder"

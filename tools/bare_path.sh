#!/bin/sh
# Fill the folder $1 with links to python3, make and the tools that every Linux system has (the essential packages of Debian), and
# nothing else. With this folder as PATH a test that needs another program fails, as on the machine that the README names.
set -eu
mkdir -p "$1"
folder=$(cd "$1" && pwd)
tools="awk base64 basename bash cat chmod chown cmp comm cp cut date dd df diff dirname du echo env expr false find getopt grep
    groups gunzip gzip head hostname id install join ln ls md5sum mkdir mkfifo mktemp mount mv nice nohup nproc od paste
    printenv printf pwd readlink realpath rm rmdir sed seq setpriv setsid sh sha256sum sleep sort split stat stty su sync tac tail
    tar tee test timeout touch tr true truncate tty uname uniq unlink wc whoami xargs yes make"
find_program() { # not `command -v`, which answers for what the shell has built in
    IFS=:
    for directory in $PATH; do
        if [ -x "$directory/$1" ] && [ ! -d "$directory/$1" ]; then
            echo "$directory/$1"
            return
        fi
    done
}

for tool in $tools; do
    found=$(find_program "$tool")
    [ -z "$found" ] || ln -sf "$found" "$folder/$tool"
done
# A script, because an interpreter that is started by a link looks for its library beside the link.
printf '#!/bin/sh\nexec "%s" "$@"\n' "$(python3 -c 'import sys; print(sys.executable)')" > "$folder/python3"
chmod +x "$folder/python3"

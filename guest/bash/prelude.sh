# What a shell of a context is given before its first run. See shell.h for the descriptors.
#
# A shell that ends by `exit`, by `set -e` or by a signal takes its variables with it. So the last thing that it does
# is to write them down, as a script, on descriptor 102: first its options, then the rest, each ended by a NUL. The
# next shell executes that, and is the old one but for open descriptors and jobs.

__cloche_on_exit= # the code's own trap on EXIT, as `trap -p` prints it

__cloche_leave='
__cloche_status=$?
__cloche_is_leaving=1
printf "l\n" >&104
{ set +o; printf "\0"; } >&102 2>/dev/null
set +eux
builtin trap - EXIT
__cloche_last=$__cloche_on_exit __cloche_on_exit=
unset __cloche_code __cloche_options __cloche_state
{
    shopt -p
    printf "umask %s\ncd -- %q\n" "$(umask)" "$PWD"
    declare -p
    declare -f
    alias -p
    builtin trap -p
    (($#)) && { printf "set --"; printf " %q" "$@"; printf "\n"; }
    printf "#\n\0"
} >&102 2>/dev/null
if [[ $__cloche_last ]]; then
    eval "__cloche_last=(${__cloche_last#trap -- })"
    __cloche_fail
    eval -- "${__cloche_last[0]}"
fi
'

# Bash that has no trap on INT overlooks one that comes when a command has just ended well, and may die of another
# without doing what it has to do on EXIT. One that comes while the state is written down is dropped.
__cloche_interrupted() {
    [[ ${__cloche_is_leaving-} ]] || builtin exit 130
}

# The trap on EXIT is ours: what the code wants done there is kept aside, and done behind it. It is looked at only
# where EXIT is meant, or all traps are: a signal that comes meanwhile ends a shell that leaves nothing.
__cloche_trap() {
    builtin trap - EXIT
    [[ $(builtin trap -p INT) == *__cloche_interrupted* ]] && builtin trap - INT
    [[ $__cloche_on_exit ]] && eval "builtin $__cloche_on_exit"
    builtin trap "$@"
    set -- "$?"
    __cloche_on_exit=$(builtin trap -p EXIT)
    builtin trap "$__cloche_leave" EXIT
    return "$1"
}

# Behind && nothing of it is ended by set -e. The runner is told whether the code has a trap on INT.
trap() {
    [[ $BASHPID == "$$" ]] || {
        builtin trap "$@"
        return
    }
    case " ${*^^} " in
    *' EXIT '* | *' SIGEXIT '* | *' 0 '* | *' -P'* | '  ') __cloche_trap "$@" ;;
    *) builtin trap "$@" ;;
    esac && set -- 0 || set -- "$?"
    set -- "$1" "$(builtin trap -p INT)"
    case $2 in
    '' | *__cloche_interrupted*)
        builtin trap __cloche_interrupted INT
        set -- "$1"
        ;;
    esac
    { printf 't%s\n' "${2:+1}" >&104; } 2>/dev/null
    return "$1"
}

# Tells how the last run ended, and waits for the next. The code is read from a file, in large pieces; from a pipe
# bash would read byte by byte.
__cloche_next() {
    __cloche_status=$?
    { printf '%d\n' "$__cloche_status" >&104; } 2>/dev/null
    { IFS= read -r -u 103 && IFS= read -r -d '' -u 100 __cloche_code; } 2>/dev/null || {
        builtin trap - EXIT
        builtin exit
    }
}

__cloche_fail() {
    return "$__cloche_status"
}

builtin trap __cloche_interrupted INT
{ IFS= read -r -d '' -u 102 __cloche_options && IFS= read -r -d '' -u 102 __cloche_state; } 2>/dev/null &&
    eval -- "$__cloche_state" 2>/dev/null
unset __cloche_is_leaving
builtin trap "$__cloche_leave" EXIT
printf 'v%s\n' "$BASH_VERSION" >&104

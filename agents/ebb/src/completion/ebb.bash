# Completion of ebb in bash: source <(ebb completion bash)
_ebb() {
    local line files=
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :0) files=yes ;;
            :*) ;;
            *) COMPREPLY+=("${line%%$'\t'*}") ;;
        esac
    done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [ -n "$files" ]; then compopt -o default 2>/dev/null; fi
}
complete -F _ebb ebb

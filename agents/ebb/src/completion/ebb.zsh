#compdef ebb
# Completion of ebb in zsh: source <(ebb completion zsh), or this as file _ebb in a folder of $fpath
_ebb() {
    local line files
    local -a entries
    for line in "${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        case $line in
            :0) files=yes ;;
            :*) ;;
            *$'\t'*) entries+=("${line%%$'\t'*}:${line#*$'\t'}") ;;
            ?*) entries+=("$line") ;;
        esac
    done
    if [[ -n $files ]]; then _files; else _describe ebb entries; fi
}
compdef _ebb ebb
# As a file of $fpath this runs as the function itself at the first TAB.
if [[ ${funcstack[1]} == _ebb ]]; then _ebb "$@"; fi

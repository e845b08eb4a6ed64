# Completion of ebb in fish: ebb completion fish | source
function __ebb_complete
    set -l word (commandline -ct)
    set -l words (commandline -opc)
    set -l lines ($words[1] __complete $words[2..-1] "$word" 2>/dev/null)
    string match -v -r '^:' -- $lines
    contains -- :0 $lines; and __fish_complete_path "$word"
end
complete -c ebb -f -a '(__ebb_complete)'

function __hasp_words
  set -l words (commandline -opc) (commandline -ct)
  set -l found (hasp completion --words -- $words[2..-1] 2>/dev/null)
  switch "$found[1]"
    case '@file*'
      __fish_complete_path (commandline -ct)
    case '@command*'
      __fish_complete_command
    case '*'
      printf '%s\n' $found
  end
end
complete -c hasp -f -a '(__hasp_words)'

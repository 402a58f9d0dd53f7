#compdef hasp
_hasp() {
  local line word meaning
  local -a found
  for line in "${(@f)$(hasp completion --words -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
    case $line in
      @file*) _files; return ;;
      @command*) _command_names -e; return ;;
      ?*) word=${line%%$'\t'*} meaning=${line#*$'\t'}
        found+=("${word//:/\\:}:$meaning") ;;
    esac
  done
  _describe hasp found
}
if [ "$funcstack[1]" = _hasp ]; then _hasp; else compdef _hasp hasp; fi

_hasp() {
  local word i=0 IFS=$'\n'
  COMPREPLY=()
  while IFS=$'\t' read -r word _; do
    case $word in
      @file) compopt -o default; return ;;
      @command)
        COMPREPLY=($(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")); return ;;
      *) printf -v 'COMPREPLY[i++]' %q "$word" ;;
    esac
  done < <(hasp completion --words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
COMP_WORDBREAKS=${COMP_WORDBREAKS//:/}
complete -F _hasp hasp

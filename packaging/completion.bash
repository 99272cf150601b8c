# Completion of pulse's commands and options for bash, from what `pulse COMMAND --help` says.
_pulse() {
  local current=${COMP_WORDS[COMP_CWORD]} word help
  local -a command=("${COMP_WORDS[0]}")
  local i
  # The commands before the cursor: words that the help of those before lists.
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    [[ $word =~ ^[a-z][a-z-]*$ ]] || continue
    help=$("${command[@]}" --help 2>/dev/null </dev/null)
    if grep -q "^  $word  " <<<"$(sed -n '/^Subcommands:/,$p' <<<"$help")"; then command+=("$word"); fi
  done
  help=$("${command[@]}" --help 2>/dev/null </dev/null) || return 0
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(sed -n 's/^  \(-.,\)\{0,1\}\(--[a-z-]*\).*/\2/p' <<<"$help")" -- "$current")
    return
  fi
  # What an option may be, where it says so: TEXT:{auto,on,off}. Bash has `=` as a word of its own.
  word=${COMP_WORDS[COMP_CWORD - 1]}
  if [[ $current == = ]]; then
    current=
  elif [[ $word == = ]]; then
    word=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if [[ $word == --* ]]; then
    local values
    values=$(sed -n "s/^  \(-.,\)\{0,1\}$word [^ ]*:{\([^}]*\)}.*/\2/p" <<<"$help")
    if [[ -n $values ]]; then
      mapfile -t COMPREPLY < <(compgen -W "${values//,/ }" -- "$current")
      return
    fi
  fi
  local names
  names=$(sed -n '/^Subcommands:/,/^[^ ]*$/s/^  \([a-z][a-z-]*\)  .*/\1/p' <<<"$help")
  if [[ -n $names ]]; then mapfile -t COMPREPLY < <(compgen -W "$names" -- "$current"); fi
}
complete -o default -F _pulse pulse

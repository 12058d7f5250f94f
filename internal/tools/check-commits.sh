#!/usr/bin/env bash
# Checks the messages of the commits since the rule was made: a subject of at most 72
# characters and a body that gives the reason. A merge by git itself needs no body. What
# is on main cannot be mended: should it ever hold a wrong one, the base moves past it.
set -euo pipefail
export LC_ALL=C.UTF-8
cd "$(dirname "$0")/../.."

base=d6fdfa9a4a334c5d68af33c9b1f66488f0db8c13
longest=72

if ! git rev-parse -q --verify HEAD >/dev/null 2>&1; then
	echo "commits: not a clone, nothing to check"
	exit 0
fi
range=HEAD # of a shallow clone, which may begin after the base
if git cat-file -e "$base^{commit}" 2>/dev/null; then
	range=$base..HEAD
fi

wrong=0
complain() {
	echo "commit ${1:0:12}: $2: $(git log -1 --format=%s "$1")" >&2
	wrong=1
}
for commit in $(git rev-list --reverse "$range"); do
	subject=$(git log -1 --format=%s "$commit")
	body=$(git log -1 --format=%b "$commit" | sed '/^[A-Za-z-]*-by: /d; /^[[:space:]]*$/d')
	if [ ${#subject} -gt $longest ]; then
		complain "$commit" "the subject has ${#subject} characters, more than $longest"
	fi
	if [ -z "$body" ]; then
		case $subject in
		"Merge branch "* | "Merge remote-tracking branch "* | "Merge pull request "* | "Merge tag "*) ;;
		*) complain "$commit" "the body does not give the reason" ;;
		esac
	fi
done
exit $wrong

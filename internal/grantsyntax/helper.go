package grantsyntax

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Program refuses what is not the path of one program. What is a pattern elsewhere is not one
// here, so that it is refused.
func Program(path string) error {
	if clean(path) && path != "/" {
		return nil
	}
	return fmt.Errorf(`%q has to be the absolute path of a program, without "..", "//" or patterns`, path)
}

// Arguments refuses what no argument can be, and what stands for further ones but at the end.
func Arguments(args []string) error {
	if i := slices.Index(args, Further); i >= 0 && i < len(args)-1 {
		return errors.New(`"..." has to be the last of the arguments`)
	}
	if i := slices.IndexFunc(args, hasZero); i >= 0 {
		return fmt.Errorf("%q has to be an argument, which has no zero byte", args[i])
	}
	return nil
}

// OneUser refuses what is not a user, or a user with a group.
func OneUser(user string) error {
	if user != Any && User(user) == nil {
		return nil
	}
	return fmt.Errorf("%q has to be a user or USER:GROUP", user)
}

// variable is the name of a variable of an environment.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Variable refuses what is not a variable of an environment.
func Variable(name, value string) error {
	if variable.MatchString(name) && !hasZero(value) {
		return nil
	}
	return fmt.Errorf("%q has to be the name of a variable, and its value has no zero byte", name)
}

func hasZero(s string) bool { return strings.ContainsRune(s, 0) }

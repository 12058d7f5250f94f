package process

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"github.com/wasmnode/wasmnode/abi"
)

// credentialOf returns what USER or USER:GROUP, names or numbers, stands for, with
// the groups that the user is in. Nil: this process's own.
func credentialOf(name string) (*syscall.Credential, error) {
	if name == "" {
		return nil, nil
	}
	userName, groupName, hasGroup := strings.Cut(name, ":")
	u, err := findUser(userName)
	if err != nil {
		return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("user %q: %v", userName, err))
	}
	gid := u.Gid
	if hasGroup {
		if gid, err = findGroup(groupName); err != nil {
			return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("group %q: %v", groupName, err))
		}
	}
	c := &syscall.Credential{}
	if c.Uid, err = number(u.Uid); err != nil {
		return nil, err
	}
	if c.Gid, err = number(gid); err != nil {
		return nil, err
	}
	if self := os.Geteuid(); self != 0 {
		if int(c.Uid) == self && int(c.Gid) == os.Getegid() {
			return nil, nil
		}
		return nil, abi.NewError(abi.PermissionDenied, fmt.Sprintf("user %q: only root can start processes of others, and this is user %d", name, self))
	}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, abi.NewError(abi.FailedPrecondition, fmt.Sprintf("user %q: its groups: %v", userName, err))
	}
	for _, g := range groups {
		n, err := number(g)
		if err != nil {
			return nil, err
		}
		c.Groups = append(c.Groups, n)
	}
	return c, nil
}

// userVariables tell a process who its user is; none without a user of its own.
func userVariables(name string) map[string]string {
	vars := map[string]string{}
	if name == "" {
		return vars
	}
	userName, _, _ := strings.Cut(name, ":")
	if u, err := findUser(userName); err == nil {
		vars["USER"], vars["LOGNAME"], vars["HOME"] = u.Username, u.Username, u.HomeDir
	}
	return vars
}

// errUnknown is the error for a name that no user or group of the node has.
var errUnknown = errors.New("this node has no user or group of that name or number")

// findUser finds a user by name, or by number where no user has that name.
func findUser(name string) (*user.User, error) {
	u, err := user.Lookup(name)
	var unknown user.UnknownUserError
	if errors.As(err, &unknown) {
		if u, err = user.LookupId(name); err != nil {
			return nil, errUnknown
		}
	}
	return u, err
}

func findGroup(name string) (gid string, err error) {
	g, err := user.LookupGroup(name)
	var unknown user.UnknownGroupError
	if errors.As(err, &unknown) {
		if g, err = user.LookupGroupId(name); err != nil {
			return "", errUnknown
		}
	}
	if err != nil {
		return "", err
	}
	return g.Gid, nil
}

func number(id string) (uint32, error) {
	n, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		return 0, abi.NewError(abi.InvalidArgument, fmt.Sprintf("%q is not a user or group number", id))
	}
	return uint32(n), nil
}

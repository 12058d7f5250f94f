package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// walked says which test has a process die at each failpoint, by the last part of its name. What is
// walked here alone is walked by make crash, a part of make check-full, and the most of it by make
// check.
var walked = map[string]string{
	"upgrade upgraded aside set-aside take taken compact compacted": "TestACrashWhileAFileIsBroughtUpLosesNothing",
	"durable.made durable.linked":                                   "TestAWriteMayBeCutOffAnywhere",
	"rootkey.resealed":                                              "TestARotationMayBeCutOffAnywhere",
	"stage staged":                                                  "TestCrashAtEveryFailpointOfATasksFiles",
	"api.rename move payload.write secrets.mount secrets.mounted":   "TestCrashAtEveryFailpointOfATasksFiles",
	"open commit committed rename renamed call answer asked answering launch launched listen locked fork forked log.open " +
		"result.write result.renamed result.remove engine.rename mkdir allocdir.remove allocdir.removed " +
		"rootkey.write rootkey.renamed rootkey.added": "TestCrashAtEveryFailpoint",
}

var hereCall = regexp.MustCompile(`failpoint\.Here\((.*)\)\n`)

// TestEveryFailpointIsWalked finds those of the source, and the tests that walk there.
func TestEveryFailpointIsWalked(t *testing.T) {
	named, tests := map[string]bool{}, ""
	root := filepath.Join("..", "..")
	require.NoError(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() && slices.Contains([]string{".git", ".cache", "testdata", "failpoint"}, e.Name()) {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if strings.HasSuffix(path, "_test.go") {
			tests += string(text)
			return err
		}
		for _, m := range hereCall.FindAllStringSubmatch(string(text), -1) {
			named[pointOf(m[1])] = true
		}
		return err
	}))
	require.Greater(t, len(named), 30)
	for points, by := range walked {
		require.Contains(t, tests, "func "+by+"(", "the test that walks")
		for point := range strings.FieldsSeq(points) {
			require.Contains(t, named, point, "it is not there any more")
			delete(named, point)
		}
	}
	require.Empty(t, named, "no test has a process die there: name one")
}

// pointOf is the last part of a point's name that is written out in a call.
func pointOf(args string) string {
	parts := strings.Split(args, ",")
	for _, part := range slices.Backward(parts) {
		if part = strings.TrimSpace(part); strings.HasPrefix(part, `"`) {
			return strings.Trim(part, `"`)
		}
	}
	return args
}

package sdk

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
)

// TestTheREADMEHasEachPackage compares the table of the README with the packages that an author can import.
func TestTheREADMEHasEachPackage(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	err = fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "internal" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if dir := path.Dir(name); dir != "." && strings.HasSuffix(name, ".go") && !strings.Contains(string(text), "\n| [`"+dir+"`]("+dir+") | ") {
			t.Errorf("the README's table has no row for %s", dir)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const mit = "Copyright somebody\n\nPermission is hereby granted, free of charge, to any\nperson obtaining a copy of this software"

// put writes files below a new directory.
func put(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		at := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o700))
		require.NoError(t, os.WriteFile(at, []byte(content), 0o600))
	}
	return dir
}

func of(path, top, dir string) (p listedPackage) {
	p.Dir = filepath.Join(top, dir)
	p.Module = &struct {
		Path, Version, Dir, GoVersion string
		Main                          bool
	}{Path: path, Version: "v1.2.3", Dir: top}
	return p
}

func TestTheInventoryHasWhatIsCompiled(t *testing.T) {
	top := put(t, map[string]string{
		"LICENSE": mit, "NOTICE": "told of", "LICENSE.docs": "of the documentation", "license.go": "package a",
		"a/b/COPYING": "Redistribution and use in source and binary forms", "a/c/LICENSE": "not compiled, not looked at",
	})
	goroot := put(t, map[string]string{"LICENSE": "Neither the name may be used to endorse or promote products derived from"})
	ours := of("github.com/wasmnode/wasmnode", t.TempDir(), "cmd")
	ours.Module.Main = true
	modules, err := inventory([]listedPackage{of("example.com/a", top, "a/b"), of("example.com/a", top, ""), {Standard: true, Dir: "/nowhere"}, ours}, goroot, "go1.2")
	require.NoError(t, err)
	require.Len(t, modules, 2)
	require.Equal(t, []string{"BSD-2-Clause", "MIT"}, modules[0].Licences)
	var names []string
	for _, x := range modules[0].Texts {
		names = append(names, x.Name)
	}
	require.Equal(t, []string{"LICENSE", "NOTICE", "a/b/COPYING"}, names)
	require.Equal(t, module{standard, "go1.2", []string{"BSD-3-Clause"}, modules[1].Texts}, modules[1])

	all := string(copyright([]byte("ours"), modules))
	require.Contains(t, all, "example.com/a v1.2.3: BSD-2-Clause, MIT\n")
	require.Contains(t, all, "told of")
	require.Contains(t, all, "ours")
}

func TestWhatMayNotBePublishedIsNot(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"no licence":         {map[string]string{"README": "free!"}, "there is no licence"},
		"a notice alone":     {map[string]string{"NOTICE": mit}, "there is no licence"},
		"an unknown licence": {map[string]string{"LICENSE": mit, "LICENSE-2": "Buy me a drink"}, "LICENSE-2 is no licence that is known here"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := inventory([]listedPackage{of("example.com/a", put(t, c.files), "")}, "", "")
			require.ErrorContains(t, err, "example.com/a v1.2.3")
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := inventory([]listedPackage{{Dir: "/somewhere"}}, "", "")
	require.ErrorContains(t, err, "/somewhere is of no module")
}

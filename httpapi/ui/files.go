package ui

import (
	"cmp"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

// filesBody is what the page of a directory or file of an allocation shows.
type filesBody struct {
	ID, Path string
	Entries  []*nomad.AllocFileInfo
	// File is that of the path where it is none of a directory, and Text how it begins.
	File *nomad.AllocFileInfo
	Text string
	Cut  bool // there is more of it
	Raw  string
}

// PathTo is the page of an entry.
func (b *filesBody) PathTo(name string) string {
	return filesPath(b.ID, strings.TrimSuffix(b.Path, "/")+"/"+name)
}

func (s *site) files(a *asker, id, name string) (*view, error) {
	var alloc nomad.Allocation
	if _, err := a.get(&alloc, path("allocation", id), nil); err != nil {
		return nil, err
	}
	body := &filesBody{ID: id, Path: "/" + strings.Trim(name, "/")}
	var info nomad.AllocFileInfo
	if _, err := a.get(&info, path("client", "fs", "stat", id), values("path", body.Path)); err != nil {
		return nil, err
	}
	v := &view{
		template: "files", Title: "Files", Section: "jobs", Body: body, Still: true,
		Parents: []link{{"Jobs", Prefix + "jobs"}, {alloc.JobID, jobPath(alloc.Namespace, alloc.JobID)}, {alloc.Name, allocationPath(id)}},
	}
	if body.Path != "/" {
		v.Title = body.Path
		v.Parents = append(v.Parents, parentsOf(id, body.Path)...)
	}
	var err error
	if info.IsDir {
		err = body.list(a)
	} else {
		body.File = &info
		err = body.read(a)
	}
	v.JSON = a.asked
	return v, err
}

// parentsOf are the directories that a path is in.
func parentsOf(id, path string) []link {
	all := []link{{"Files", filesPath(id, "/")}}
	for i, c := range path {
		if c == '/' && i > 0 {
			all = append(all, link{path[strings.LastIndexByte(path[:i], '/')+1 : i], filesPath(id, path[:i])})
		}
	}
	return all
}

func (b *filesBody) list(a *asker) error {
	if _, err := a.get(&b.Entries, path("client", "fs", "ls", b.ID), values("path", b.Path)); err != nil {
		return err
	}
	slices.SortFunc(b.Entries, func(x, y *nomad.AllocFileInfo) int {
		if x.IsDir != y.IsDir {
			if x.IsDir {
				return -1
			}
			return 1
		}
		return cmp.Compare(x.Name, y.Name)
	})
	return nil
}

func (b *filesBody) read(a *asker) error {
	text, err := a.text(path("client", "fs", "readat", b.ID), values("path", b.Path, "offset", "0", "limit", number(tail)))
	if err != nil {
		return err
	}
	b.Text = readable(text)
	b.Cut = b.File.Size > int64(len(text))
	b.Raw = path("client", "fs", "cat", b.ID) + "?" + values("path", b.Path).Encode()
	return nil
}

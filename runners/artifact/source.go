package artifact

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	getter "github.com/hashicorp/go-getter/v2"
	nomad "github.com/hashicorp/nomad/api"
)

// source is an artifact block, understood.
type source struct {
	url      *url.URL // with go-getter's options that are left to it
	git      bool
	subdir   string // the part of it that is wanted; empty: all
	format   format // of the archive that it is
	file     bool   // the destination is a file, not a directory
	filename string // in the destination directory
	dest     string
	header   http.Header
	insecure bool
}

// Check finds what is wrong with an artifact block before anything is downloaded.
// References in it are not replaced yet, so that an address may be one as a whole.
func Check(a *nomad.TaskArtifact) error {
	if strings.Contains(text(a.GetterSource), "${") {
		return nil
	}
	_, err := parse(a)
	return err
}

// Redacted is a source's address without what may be secret: user, password, options.
func Redacted(src string) string {
	src, _, _ = strings.Cut(src, "?")
	scheme, rest, found := strings.Cut(src, "://")
	if !found {
		return src
	}
	host, rest, _ := strings.Cut(rest, "/")
	return scheme + "://" + host[strings.LastIndexByte(host, '@')+1:] + "/" + rest
}

func parse(a *nomad.TaskArtifact) (*source, error) {
	raw := text(a.GetterSource)
	if raw == "" {
		return nil, errors.New("source: it is missing")
	}
	s := &source{dest: text(a.RelativeDest), header: http.Header{}, insecure: a.GetterInsecure != nil && *a.GetterInsecure}
	for name, value := range a.GetterHeaders {
		s.header.Set(name, value)
	}
	if err := s.locate(raw); err != nil {
		return nil, err
	}
	if err := s.options(a.GetterOptions); err != nil {
		return nil, err
	}
	return s, s.mode(text(a.GetterMode))
}

// locate understands the address: go-getter's short forms, what it forces, its subdir.
func (s *source) locate(raw string) error {
	raw, s.subdir = getter.SourceDirSubdir(raw)
	if !strings.Contains(raw, "://") {
		for _, d := range []getter.Detector{&getter.GitDetector{}, &getter.GitHubDetector{}, &getter.GitLabDetector{}} {
			long, found, err := d.Detect(strings.TrimPrefix(raw, "git::"), "")
			if err != nil {
				return fmt.Errorf("source: %w", err)
			}
			if found {
				long, subdir := getter.SourceDirSubdir(long)
				raw, s.subdir = long, path.Join(subdir, s.subdir)
				break
			}
		}
	}
	forced, address, found := strings.Cut(raw, "::")
	if !found || strings.Contains(forced, "/") {
		forced, address = "", raw
	}
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("source: %q is not an address", Redacted(address))
	}
	s.url = u
	s.git = forced == "git" || u.Scheme == "git" || u.Scheme == "ssh"
	known := []string{"http", "https"}
	if s.git {
		known = append(known, "ssh", "git")
	}
	if !slices.Contains(known, u.Scheme) || forced != "" && forced != "git" && forced != u.Scheme || u.Host == "" {
		return fmt.Errorf("source: %q is not fetched: addresses are http://, https:// and git::, and local files are none", Redacted(raw))
	}
	if s.subdir != "" {
		s.subdir = path.Clean("/" + s.subdir)[1:]
		if strings.ContainsAny(s.subdir, "*?[") {
			return fmt.Errorf("source: the directory %q in it has a pattern: name one directory", s.subdir)
		}
	}
	return nil
}

// options are in the block or in the address. Those that are not known are the server's.
func (s *source) options(more map[string]string) error {
	q := s.url.Query()
	for _, name := range slices.Sorted(maps.Keys(more)) {
		q.Set(name, more[name])
	}
	if archive := q.Get("archive"); archive != "" {
		if is, err := strconv.ParseBool(archive); err == nil && !is {
			s.format = formatNone
		} else if s.format = formatOf("x." + archive); s.format == formatNone {
			return fmt.Errorf("options: archive: %q is not a known kind", archive)
		}
	} else if !s.git {
		s.format = formatOf(s.url.Path)
	}
	s.filename = path.Base(s.url.Path)
	if name := q.Get("filename"); name != "" {
		s.filename = name
		if path.Base(name) != name || name == ".." || name == "." {
			return fmt.Errorf("options: filename: %q is not a file's name", name)
		}
	}
	q.Del("archive")
	q.Del("filename")
	if s.format == formatXz {
		return errors.New("source: xz archives are not unpacked, as the memory they take has no bound: use zstd, gzip or zip, or options { archive = false }")
	}
	if s.git && q.Get("checksum") != "" {
		return errors.New("options: checksum: a repository has none; name a commit with ref")
	}
	if ref := q.Get("ref"); s.git && strings.HasPrefix(ref, "-") {
		return fmt.Errorf("options: ref: %q is not a branch, tag or commit", ref)
	}
	s.url.RawQuery = q.Encode()
	return nil
}

// mode is what the destination is.
func (s *source) mode(mode string) error {
	switch mode {
	case "", "any":
	case "file":
		if s.file = true; s.git {
			return errors.New(`mode: "file" is not possible with a git repository: use "dir"`)
		}
	case "dir":
		if !s.git && s.format == formatNone {
			return errors.New(`mode: "dir" needs an archive or a git repository`)
		}
	default:
		return fmt.Errorf("mode: %q is none of any, file and dir", mode)
	}
	if !s.git && !s.format.tree() && s.subdir != "" {
		return fmt.Errorf("source: it names the directory %q in something that is not an archive", s.subdir)
	}
	if s.dest == "" {
		s.dest = "local/"
		if s.file {
			s.dest += s.filename
		}
	}
	return nil
}

func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

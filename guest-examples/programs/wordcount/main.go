// Command wordcount counts the words of a text file and prints the counts as JSON,
// most frequent first. Run by the wasi driver, it sees only what its task mounts.
//
//	wordcount [-top N] [FILE]
//
// Without a FILE it reads the one that $WORDCOUNT_FILE names.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"
)

func main() {
	top := flag.Int("top", 10, "how many words to print; 0: all")
	flag.Parse()
	name := flag.Arg(0)
	if name == "" {
		name = os.Getenv("WORDCOUNT_FILE")
	}
	if err := run(name, *top, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "wordcount:", err)
		os.Exit(1)
	}
}

// Report is what is printed.
type Report struct {
	File     string `json:"file"`
	Lines    int    `json:"lines"`
	Words    int    `json:"words"`
	Distinct int    `json:"distinct"`
	Top      []Word `json:"top"`
}

// Word is one word and how often it occurs.
type Word struct {
	Word  string `json:"word"`
	Count int    `json:"count"`
}

func run(name string, top int, out io.Writer) error {
	if name == "" {
		return fmt.Errorf("no file: name one as an argument or in WORDCOUNT_FILE")
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	report, err := count(f, top)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	report.File = name
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

func count(in io.Reader, top int) (*Report, error) {
	report := &Report{Top: []Word{}}
	counts := make(map[string]int)
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		report.Lines++
		for _, word := range strings.FieldsFunc(strings.ToLower(lines.Text()), betweenWords) {
			counts[word]++
			report.Words++
		}
	}
	for word, n := range counts {
		report.Top = append(report.Top, Word{word, n})
	}
	slices.SortFunc(report.Top, func(a, b Word) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Word, b.Word))
	})
	report.Distinct = len(counts)
	if top > 0 && len(report.Top) > top {
		report.Top = report.Top[:top]
	}
	return report, lines.Err()
}

func betweenWords(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\'' && r != '-'
}

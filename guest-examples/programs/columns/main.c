// columns: statistics of the numeric columns of a CSV file, as a table.
//
//   columns FILE
//
// The first line names the columns. A column is numeric when all its cells are
// numbers. Cells contain no quotes. Exit codes: 1 the file cannot be read, 2 usage,
// 3 a line that does not fit.

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COLUMNS = 64, MAX_LINE = 4096 };

struct column {
  char name[64];
  long count;
  double min, max, mean, m2; // m2: sum of squares of differences from the mean
  int text;                  // a cell was not a number
};

static void add(struct column *c, double x) {
  if (c->count == 0 || x < c->min) c->min = x;
  if (c->count == 0 || x > c->max) c->max = x;
  c->count++;
  double delta = x - c->mean;
  c->mean += delta / (double)c->count;
  c->m2 += delta * (x - c->mean);
}

// split cuts line at its commas and returns the number of cells, at most max + 1.
static int split(char *line, char **cells, int max) {
  line[strcspn(line, "\r\n")] = 0;
  int n = 0;
  for (char *cell = line; cell;) {
    char *comma = strchr(cell, ',');
    if (comma) *comma++ = 0;
    if (n == max) return max + 1;
    cells[n++] = cell;
    cell = comma;
  }
  return n;
}

int main(int argc, char **argv) {
  static struct column columns[MAX_COLUMNS];
  static char line[MAX_LINE];
  char *cells[MAX_COLUMNS];
  if (argc != 2) {
    fprintf(stderr, "usage: columns FILE\n");
    return 2;
  }
  FILE *f = fopen(argv[1], "r");
  if (!f || !fgets(line, sizeof line, f)) {
    fprintf(stderr, "columns: %s: %s\n", argv[1], f ? "empty" : strerror(errno));
    return 1;
  }
  int width = split(line, cells, MAX_COLUMNS);
  if (width > MAX_COLUMNS) {
    fprintf(stderr, "columns: %s: more than %d columns\n", argv[1], MAX_COLUMNS);
    return 3;
  }
  for (int i = 0; i < width; i++) snprintf(columns[i].name, sizeof columns[i].name, "%s", cells[i]);

  for (long number = 2; fgets(line, sizeof line, f); number++) {
    if (line[0] == '\n' || line[0] == '\r') continue;
    if (split(line, cells, MAX_COLUMNS) != width) {
      fprintf(stderr, "columns: %s: line %ld: not %d cells\n", argv[1], number, width);
      return 3;
    }
    for (int i = 0; i < width; i++) {
      char *end;
      double x = strtod(cells[i], &end);
      if (end == cells[i] || *end || !isfinite(x)) columns[i].text = 1;
      else add(&columns[i], x);
    }
  }
  if (ferror(f)) {
    fprintf(stderr, "columns: %s: %s\n", argv[1], strerror(errno));
    return 1;
  }
  printf("%-16s %6s %14s %14s %14s %14s\n", "column", "count", "min", "max", "mean", "stddev");
  for (int i = 0; i < width; i++) {
    struct column *c = &columns[i];
    if (c->text || c->count == 0) continue;
    double deviation = c->count > 1 ? sqrt(c->m2 / (double)(c->count - 1)) : 0;
    printf("%-16s %6ld %14.2f %14.2f %14.2f %14.2f\n", c->name, c->count, c->min, c->max, c->mean, deviation);
  }
  return fflush(stdout) ? 1 : 0;
}

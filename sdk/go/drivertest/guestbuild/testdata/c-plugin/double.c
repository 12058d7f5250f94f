__attribute__((export_name("double"))) int twice(int n) { return 2 * n; }

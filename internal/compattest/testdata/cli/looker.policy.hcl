namespace "default" {
  policy = "read"
}
node {
  policy = "read"
}

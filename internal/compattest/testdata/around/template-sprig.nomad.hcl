job "template-sprig" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          cat local/x
          EOF
        ]
      }
      template {
        data        = <<-EOF
          {{ sprig_upper "up" }} {{ sprig_list 1 2 | sprig_last }} {{ sprig_dict "a" 1 | toJSON }} {{ sprig_default "d" "" }} {{ "a b" | sprig_title }} {{ sprig_trunc 2 "abc" }} {{ sprig_until 3 }} {{ sprig_semver "1.2.3" | toJSON }} {{ sprig_regexFind "[0-9]+" "a12" }} {{ sprig_ternary 1 2 true }} {{ sprig_b64enc "x" }} {{ sprig_sha1sum "x" }} {{ sprig_nospace "a b" }} {{ sprig_plural "one" "many" 2 }}
          EOF
        destination = "local/x"
        splay       = "0s"
      }
    }
  }
}

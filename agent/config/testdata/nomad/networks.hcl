client {
  network_interface          = "lo"
  preferred_address_family   = "ipv4"
  bridge_network_name        = "attic0"
  bridge_network_subnet      = "172.30.0.0/20"
  bridge_network_hairpin_mode = true
  cni_path                   = "/srv/nomad/cni"
  cni_config_dir             = "/srv/nomad/cni.d"
  min_dynamic_port           = 20000
  max_dynamic_port           = 32000

  host_network "inside" {
    cidr           = "127.0.0.0/8"
    reserved_ports = "22"
  }
  host_network "loop" {
    interface = "lo"
  }
}

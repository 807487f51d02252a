"""Which tests are asked of the engine gvisor. A start takes it 0.2 s, so by default it gets some of all that apply;
CLOCHE_TEST_ENGINES=gvisor asks it everything (docs/engines.md has the table of what does not apply)."""
import os

ALL = os.environ.get("CLOCHE_TEST_ENGINES") == "gvisor"
EACH = 8  # of the probes of escape, in their order

BY_FILE = {
    "test_causes.py": {
        "test_exit", "test_signal", "test_wall_time", "test_wall_time_of_a_stopped_program", "test_cpu_time",
        "test_output_flood", "test_uncaught_exception_is_an_exit_with_a_traceback"},
    "test_files.py": {
        "test_read_grant_shows_a_path_at_its_own_place", "test_read_grant_of_a_single_file",
        "test_relative_command_runs_from_a_granted_directory"},
    "test_json.py": {"test_layers_are_named_and_active", "test_files_have_path_size_and_hash",
                     "test_compile_step_has_a_result_of_its_own"},
    "test_workloads.py": {"test_sqlite", "test_child_in_its_own_session_and_group"},
    "test_collection_attacks.py": {"test_symlinks_are_left_out", "test_device_cannot_be_made",
                                   "test_output_directory_that_is_closed_or_replaced"},
    "test_memory_attacks.py": {"test_memory_bomb_of_python", "test_huge_reservation_without_use_is_no_crime"},
    "test_process_storms.py": {"test_storm_stops_at_the_limit", "test_fork_bomb_of_bash", "test_thread_bomb",
                               "test_daemons_that_ignore_every_signal_are_gone", "test_busy_box_ends_at_its_deadline"},
    "test_output_floods.py": {"test_both_streams_at_once", "test_exactly_the_limit_is_not_cut",
                              "test_flood_at_a_reader_that_does_not_read"},
}

# Probes of what a kernel of the box's own has no need to keep from it, by reason.
NOT = {name: reason for reason, names in {
    "its mounts are its kernel's, and no_new_privs holds for all": ["mounts_are_nosuid"],
    "its kernel has no such namespaces, and their numbers are its own": [
        "cgroup_namespace_is_not_the_hosts", "time_namespace_is_not_the_hosts"],
    "users are numbers of its own kernel: on the host there is only the uid of the box": [
        "host_root_is_not_mapped", "host_root_group_is_not_mapped"],
    "told to its own kernel, which does nothing with it on the host": [
        "secure_bits_cannot_be_set", "priority_cannot_be_raised"],
    "page zero of an address space that no kernel of the host's looks into": ["page_zero_cannot_be_mapped"],
    "numbers and addresses of init, which has another user; nothing of it can be opened, signalled or traced": [
        "init_descriptors_cannot_be_listed", "supervisor_descriptors_cannot_be_listed", "init_map_cannot_be_read"],
    "what is there is HOME=/root, which runsc adds": ["supervisor_environment_cannot_be_read"],
    "what /proc says there is of gVisor's kernel, and the same on every host": [
        "own_process_settings_cannot_be_written", "proc_tells_only_the_declared", "kernel_command_line_is_hidden",
        "settings_are_not_listed"],
    "devices of gVisor's kernel, behind which is nothing of the host's; mounting and networking are refused": [
        "only_harmless_devices_exist", "fuse_cannot_be_opened", "tunnel_device_cannot_be_opened"],
}.items() for name in names}


def applies(definition):
    return definition.originalname in BY_FILE.get(definition.path.name, ())


def asked(probes):
    """Of the probes for containers."""
    fitting = [probe for probe in probes if "container" in probe.engines and probe.name not in NOT]
    return fitting if ALL else fitting[::EACH]

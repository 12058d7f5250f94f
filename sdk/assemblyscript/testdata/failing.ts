/** A test that fails and one that does not, for the test of the runner. */

import { same } from "../test";

export function test_a_thing_is_another(): void {
  same("a thing", "another");
}

export function test_a_thing_is_itself(): void {
  same("a thing", "a thing");
}

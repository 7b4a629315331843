use super::*;

#[test]
fn a_name_is_itself_and_a_beginning_is_all_that_begin_so() {
    let namespaces = Namespaces::of(["shop", "kube-*"]).unwrap();
    for (namespace, expected) in
        [("shop", true), ("shops", false), ("kube-system", true), ("kube-", true), ("kube", false), ("", false)]
    {
        assert_eq!(namespaces.contains(namespace), expected, "{namespace}");
    }
}

#[test]
fn all_are_all_also_for_pods_without_a_namespace() {
    assert!(Namespaces::all().contains("") && Namespaces::all().contains("shop"));
    assert!(!Namespaces::none().contains("") && !Namespaces::none().contains("shop"));
    assert_eq!(Namespaces::of(["*"]), Ok(Namespaces::all()));
}

#[test]
fn a_name_that_kubernetes_would_refuse_is_refused() {
    let longest = "a".repeat(63);
    for name in ["a", "a-1", "1", "a*", "a-*", "*", &longest] {
        assert!(Namespaces::of([name]).is_ok(), "{name}");
    }
    for name in ["", "A", "a_b", "a.b", "*a", "a**", "-a", "a-", "a b", &format!("{longest}a")] {
        assert_eq!(Namespaces::of([name]), Err(NoNamespace(name.to_owned())), "{name}");
    }
}

#[test]
fn they_are_shown_as_a_list() {
    let rules = PolicyRules { namespaces: Namespaces::of(["shop", "kube-*"]).ok(), ..PolicyRules::default() };
    check(&policies(rules, &[]), "10-a", NOTHING, "namespaces=[shop kube-*] (operator, for all)");
}

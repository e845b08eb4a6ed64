//! The flags that say which cluster is asked, and as whom.

use anyhow::Result;

use crate::site::{Site, program, said};

#[tokio::test]
async fn flags_that_are_empty_are_not_set() -> Result<()> {
    let site = Site::passive()?;
    let mut command = program();
    command.env("KUBECONFIG", site.kubeconfig()).args(["cordon", "edge-a", "--kubeconfig", "", "--context="]);
    let said = said(command.output().await?)?;
    assert_eq!((said.code, said.out.as_str()), (0, "node/edge-a cordoned\n"), "{said:?}");
    Ok(())
}

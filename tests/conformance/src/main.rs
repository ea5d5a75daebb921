use anyhow::Result;
fn main()->Result<()>{
    for c in conformance::spec_values::checks()? { println!("{} {}{}", if c.passes(){"ok"}else{"DIFFERS"}, c.name, if c.passes(){String::new()}else{format!("\n  spec {}\n  oracle {}",c.spec,c.oracle)}); }
    let a=std::env::args().nth(1).unwrap();
    for n in a.split(',') {
    let case = conformance::case::named("x", n)?;
    println!("{case:?}");
    let d=tempfile::tempdir()?;
    let t=std::time::Instant::now();
    let out=conformance::oracle::seal(&case,d.path())?;
    println!("{:?}", t.elapsed());
    for (k,v) in &out { println!("{k} {} {}", v.len(), if v.len()<=32 {hex::encode(v)} else {conformance::artifacts::sha256_hex(v)}); }
    let comm_r = out["comm_r"].clone().try_into().unwrap(); let comm_d = out["comm_d"].clone().try_into().unwrap();
    println!("accepts {}", conformance::oracle::accepts(&case, &out["c1/vanilla_proofs.json"], comm_r, comm_d)?);
    }
    Ok(())
}

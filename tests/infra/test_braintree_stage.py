"""A stage has Braintree's secret, layer and settings only if it configures Braintree."""

from pathlib import Path

from tests.infra.assembly import PROD, Assembly

PAYMENTS = "PaymentsWorker/Worker"


def test_braintree_is_absent_without_its_settings(prod: Assembly) -> None:
    worker = prod.functions[PAYMENTS]
    assert not [name for name in worker.variables if name.startswith("BRAINTREE_")]
    assert not [layer for layer in worker.layers if "braintree" in layer.lower()]
    assert "BraintreeSecretArn" not in prod.template["Outputs"]


def test_braintree_gets_secret_layer_and_settings_where_it_is_used(tmp_path: Path) -> None:
    braintree = {
        "braintree_merchant_id": "shop",
        "braintree_merchant_accounts": "eur=shop_eur",
    }
    stage = Assembly.from_folder(tmp_path, PROD.model_copy(update={"provider_settings": braintree}))
    for name in (PAYMENTS, "Reconciler/Resolve", "AdminPage/Repair"):
        function = stage.functions[name]
        assert function.variables["BRAINTREE_MERCHANT_ACCOUNTS"] == "eur=shop_eur"
        assert "BRAINTREE_SECRET" in function.variables
        assert [layer for layer in function.layers if "braintree" in layer.lower()]
    assert "BRAINTREE_SECRET" not in stage.functions["SyncWorker/Worker"].variables
    assert "BraintreeSecretArn" in stage.template["Outputs"]
